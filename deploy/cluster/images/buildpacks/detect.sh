#!/bin/sh
# Takes part for sources with a greeting.
if [ -f greeting.txt ]; then exit 0; fi
echo "berth/greeting looked for greeting.txt"
exit 100
