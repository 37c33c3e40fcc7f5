#!/bin/sh
# Runs the ConfigMap key `<argument>.sh`, if there is one.
hook="$SKYHOOK_DIR/configmaps/$1.sh"
if [ ! -f "$hook" ]; then
  echo "no $1.sh in the ConfigMap, nothing to do"
  exit 0
fi
. "$hook"
