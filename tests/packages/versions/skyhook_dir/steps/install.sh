#!/bin/sh
# Leaves a trace per run, so that a test can count them.
echo "install $*" >> /trace
