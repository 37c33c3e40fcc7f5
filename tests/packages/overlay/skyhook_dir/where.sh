#!/bin/sh
echo "color=$COLOR package=$PACKAGE_ENV order=$SKYHOOK_NODE_ORDER"
echo "step_root=$STEP_ROOT skyhook_dir=$SKYHOOK_DIR cwd=$PWD"
read -r motd < /etc/overlay.d/motd
echo "motd=$motd"
