#!/bin/sh
# Fails for the number in the ConfigMap key `bad`.
bad=none
[ -f "$SKYHOOK_DIR/configmaps/bad" ] && read -r bad < "$SKYHOOK_DIR/configmaps/bad"
echo "check $1"
[ "$1" != "$bad" ] || exit 3
