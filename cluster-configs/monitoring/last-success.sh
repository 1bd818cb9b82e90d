#!/bin/sh
# For 'daskfc run --notify': writes when a run last ended well, into the folder of text files that
# the node exporter of Prometheus reads.
set -eu
[ "$DASKFC_STATUS" = done ] || exit 0
file=${DASKFC_TEXTFILE:-/var/lib/node_exporter/textfile/daskfc.prom}
{
    echo "# HELP daskfc_last_success_timestamp_seconds When a run last ended well."
    echo "# TYPE daskfc_last_success_timestamp_seconds gauge"
    echo "daskfc_last_success_timestamp_seconds $(date +%s)"
} > "$file.new"
mv "$file.new" "$file"
