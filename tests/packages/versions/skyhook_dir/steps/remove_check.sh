#!/bin/sh
[ ! -s /trace ]
