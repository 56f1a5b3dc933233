# shellcheck shell=bash disable=SC2154 # lib.sh declares what is used here
# Checks of the numbers that a user has set. Recipes compute with them, and bash goes on after an error in $(( )).

# these have no default, or take a word, too
MAY_BE_EMPTY=" PASS UPDATES TOTAL PHASE_1 FINE_TUNING SPLIT_STREAMS " MAY_BE_WORDS=" BPE "

# whole_numbers NAME DEFAULT: where the default is whole numbers, the values are, too, and each stands there once
whole_numbers() {
    local word seen=" "
    [[ $2 =~ ^[0-9]+(\ [0-9]+)*$ || $MAY_BE_EMPTY = *" $1 "* ]] && [[ $MAY_BE_WORDS != *" $1 "* ]] || return 0
    for word in ${!1}; do
        [[ $word =~ ^(0|[1-9][0-9]*)$ ]] || stop "$1: $word is no whole number, such as 2 or 2000; correct it."
        [[ $seen != *" $word "* ]] || stop "$1: $word stands there twice; give it once."
        seen+="$word "
    done
}

# With SEEDS, trainings are named by their seeds; a --seed for all of them would make them equal.
seeds_are_named() {
    [[ ! ${DECLARED[SEEDS]:-} || " ${EXTRA[*]}" != *" --seed"* ]] || stop "--seed: set SEEDS in place of this flag."
}
