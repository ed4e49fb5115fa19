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

torch_version=$(sed -n 's/^set(LOCKSTEP_TORCH_VERSION \(.*\))$/\1/p' cmake/torch.cmake)
torch_root=${LOCKSTEP_TORCH_ROOT:-$LOCKSTEP_CACHE/torch-$torch_version}
python_root=$LOCKSTEP_CACHE/python-torch-$torch_version
cuda_root=${LOCKSTEP_CUDA_ROOT:-$(printf '%s\n' "$python_root"/lib/python3.*/site-packages | head -n 1)}
export LOCKSTEP_CACHE
