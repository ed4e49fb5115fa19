# Goes to the repository's root and says where things are; every script in ci/ sources it.

die() {
  echo "ci/${0##*/}: $*" >&2
  exit 2  # "nothing was judged": 1 is a divergence.
}

LOCKSTEP_CACHE=${LOCKSTEP_CACHE:-${HOME:?}/.cache/lockstep}
[[ $LOCKSTEP_CACHE == /* ]] || LOCKSTEP_CACHE=$PWD/$LOCKSTEP_CACHE
if [[ -n ${LOCKSTEP_TORCH_ROOT:-} && $LOCKSTEP_TORCH_ROOT != /* ]]; then
  LOCKSTEP_TORCH_ROOT=$PWD/$LOCKSTEP_TORCH_ROOT
fi
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." || exit 2

# What is exhaustive runs in parts, of which each commit takes one; LOCKSTEP_CI_SEED repeats the choice of another.
commit_seed() {
  local seed=${LOCKSTEP_CI_SEED:-} commit
  if [[ -z $seed ]]; then
    commit=$(git rev-parse --short=7 HEAD 2>/dev/null) || die "no commit to choose a part by; set LOCKSTEP_CI_SEED to a number"
    seed=$((16#${commit::7}))
  fi
  [[ $seed =~ ^(0|[1-9][0-9]{0,14})$ ]] || die "LOCKSTEP_CI_SEED=$seed is no number"
  echo "$seed"
}

# part_of SEED PARTS: "2/4"
part_of() { echo "$(($1 % $2 + 1))/$2"; }

torch_version=$(sed -n 's/^set(LOCKSTEP_TORCH_VERSION \(.*\))$/\1/p' cmake/torch.cmake)
torch_root=${LOCKSTEP_TORCH_ROOT:-$LOCKSTEP_CACHE/torch-$torch_version}
lint_root=$LOCKSTEP_CACHE/python-lint
python_root=$LOCKSTEP_CACHE/python-torch-$torch_version
release_root=$LOCKSTEP_CACHE/python-release
frameworks_root=$LOCKSTEP_CACHE/python-frameworks-$torch_version
cuda_root=${LOCKSTEP_CUDA_ROOT:-$(printf '%s\n' "$python_root"/lib/python3.*/site-packages | head -n 1)}
export LOCKSTEP_CACHE
