# lockstep with its worker and LibTorch: docker build --tag lockstep . (docs/releasing.md#image)
FROM debian:12-slim AS build
# pip's own variable, for a machine that takes packages from elsewhere.
ARG PIP_INDEX_URL
# The worker keeps this path of its LibTorch.
ENV LOCKSTEP_CACHE=/opt/lockstep/cache
COPY . /source
WORKDIR /source
RUN ci/setup && ci/build installable \
    && cmake --install build --prefix /opt/lockstep --strip \
    && rm -r /opt/lockstep/cache/torch-*/torch/include

FROM debian:12-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        libbz2-1.0 libgcc-s1 libjpeg62-turbo libpng16-16 libssl3 libstdc++6 libxxhash0 libzip4 zlib1g \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/lockstep /opt/lockstep
ENV PATH=/opt/lockstep/bin:$PATH
RUN useradd --uid 1000 --create-home lockstep
USER 1000
WORKDIR /work
ENTRYPOINT ["lockstep"]
