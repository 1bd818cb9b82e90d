#!/bin/bash
# One task of gang.sbatch: gang-party.sh scheduler | server | client NUMBER
clients=(hospital-a hospital-b hospital-c)

set -eu
umask 077
name=$1
[ "$name" != client ] || name=${clients[$2]}
certs=()
if [ -n "$DASKFC_CERTS" ]; then
    own=$DASKFC_CERTS/$name
    certs=(--tls-ca-file "$own/ca.pem" --tls-cert "$own/cert.pem" --tls-key "$own/key.pem")
fi
if [ "$name" = scheduler ]; then
    address=127.0.0.1    # nothing listens off this node without certificates
    [ -z "$DASKFC_CERTS" ] || address=$(hostname -i)
    exec daskfc scheduler --host "${address%% *}" --port 0 --scheduler-file scheduler.json \
        "${certs[@]}"
fi
# On a disk of the node, since these are many small files. A run that is resumed makes them again.
own=(--workspace "${TMPDIR:-/tmp}/daskfc-$(id -un)-$name" --memory-limit 2GB)
[ "$name" = server ] || own+=(--store "$DASKFC_STORES/$name.zarr")
exec daskfc party "$name" --scheduler-file scheduler.json --wait 10m "${own[@]}" "${certs[@]}"
