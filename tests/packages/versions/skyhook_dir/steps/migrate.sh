#!/bin/sh
echo "migrate $1 $2 $PREVIOUS_VERSION $CURRENT_VERSION" >> /trace
