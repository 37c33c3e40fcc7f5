#!/bin/sh
[ "$1" = "$PREVIOUS_VERSION" ] && [ "$2" = "$CURRENT_VERSION" ]
