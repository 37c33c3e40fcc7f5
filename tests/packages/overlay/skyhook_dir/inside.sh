#!/bin/sh
# Runs in the agent's container: the host is a folder, and this one is under it.
: > "$SKYHOOK_DIR/ran-in-container"
