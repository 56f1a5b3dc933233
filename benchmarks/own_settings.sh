# shellcheck shell=bash
# Sourced by measurements that call recipes, in the repository root: they set the recipes' variables themselves. One that is
# still exported from another call would change the measurement, so all are unset, and a message names them.
exported=()
for variable in $(grep -rhoE '\[[A-Z][A-Z0-9_]*\]=' recipes --include='*.sh' | tr -d '[]=' | sort -u); do
    [[ ! ${!variable:-} ]] || exported+=("$variable")
    unset "$variable"
done
((!${#exported[@]})) || echo "$(basename "$0"): these variables are ignored, it sets its own: ${exported[*]}" >&2
unset exported variable
