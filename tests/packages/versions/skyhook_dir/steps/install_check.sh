#!/bin/sh
[ -f /trace ]
