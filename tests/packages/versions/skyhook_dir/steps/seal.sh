#!/bin/sh
# 2 means "was sealed already", which is as good.
echo "seal $*" >> /trace
exit "${SEAL_EXIT:-2}"
