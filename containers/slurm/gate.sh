#!/usr/bin/env bash
# Prolog, Epilog or HealthCheckProgram of Slurm: drain this node if `accelbench gate` finds it unfit.
#
# slurm.conf:
#   Prolog=/etc/slurm/gate.sh              # before each job, at most 30 s; PrologTimeout must be longer
#   HealthCheckProgram=/etc/slurm/gate.sh
#   HealthCheckInterval=3600
#   HealthCheckNodeState=IDLE              # not while jobs run: a busy node is unknown
#   SchedulerParameters=nohold_on_prolog_fail   # otherwise a job that a Prolog refused waits for `scontrol release`
# Environment variables, with their defaults. slurmd passes none of them: set them in a script that ends with
# `exec /etc/slurm/gate.sh`, and name that script in slurm.conf. A HealthCheckProgram also lacks SLURM_CONF, which is
# needed if slurm.conf is not in its default folder.
#   ACCELBENCH            command                                         accelbench
#   ACCELBENCH_BASELINE   limits by `accelbench baseline`                 /etc/accelbench/baseline.toml, if it exists
#   ACCELBENCH_OPTIONS    further options of the gate: --level standard --tag rack=r12
#   ACCELBENCH_RESULTS    folder or URL for one JSON file per gate, read by `accelbench fleet`; none by default

set -uo pipefail

baseline=${ACCELBENCH_BASELINE:-/etc/accelbench/baseline.toml}
node=${SLURMD_NODENAME:-${SLURM_NODELIST:-}}
options=(--level quick --node "$node" --format json)
[[ ! -e $baseline ]] || options+=(--baseline "$baseline")
[[ -z ${ACCELBENCH_RESULTS:-} ]] || options+=(--out "$ACCELBENCH_RESULTS")

# Slurm gives a prolog almost no environment variables.
export PATH=${PATH:-/usr/local/bin:/usr/bin:/bin} HOME=${HOME:-/tmp}
# shellcheck disable=SC2086 # several words
answer=$(${ACCELBENCH:-accelbench} gate "${options[@]}" ${ACCELBENCH_OPTIONS:-})
status=$?
summary=$(sed -n 's/^ "summary": "\(.*\)",$/\1/p' <<<"$answer" | head -n 1)
logger -t accelbench-gate "status $status: ${summary:-no answer}" 2>/dev/null || true
if [[ $status == 1 && -n $summary ]]; then
    problem=$(scontrol update nodename="$node" state=drain reason="accelbench: ${summary:0:200}" 2>&1) ||
        logger -t accelbench-gate "cannot drain $node: $problem" 2>/dev/null || true
    exit 1
fi
exit 0 # fit, or unknown
