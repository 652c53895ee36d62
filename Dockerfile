# MARC on the CPU: docker build -t marc . && docker run --rm -v "$PWD:/work" marc demo
# With extras: docker build --build-arg EXTRAS=serve -t marc .
FROM python:3.11-slim AS build
ARG EXTRAS=""
WORKDIR /source
COPY pyproject.toml constraints-cpu.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/marc \
    && /opt/marc/bin/pip install --no-cache-dir -c constraints-cpu.txt ".${EXTRAS:+[$EXTRAS]}"

FROM python:3.11-slim
COPY --from=build /opt/marc /opt/marc
# compiled functions, drawn pictures and weights are kept here; mount it to keep them for longer
ENV PATH=/opt/marc/bin:$PATH MARC_CACHE=/home/marc/cache NUMBA_CACHE_DIR=/home/marc/numba
RUN useradd --create-home marc && mkdir /work /data && chown marc /work /data
USER marc
WORKDIR /work
ENTRYPOINT ["marc"]
CMD ["--help"]
