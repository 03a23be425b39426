# docker build -t spice .
# docker run --network none --user "$(id -u):$(id -g)" -v "$PWD/photos:/photos:ro" -v "$PWD:/out" spice cluster /photos
FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY src src
# --build-arg PIP_EXTRA_INDEX_URL=... with PyTorch's index of CPU builds makes the image several gigabytes smaller.
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir --constraint constraints.txt . && useradd --create-home spice
# Any user can write the cache: with --user, files in /out belong to you.
ENV SPICE_CACHE=/tmp/spice-cache
USER spice
WORKDIR /out
ENTRYPOINT ["spice"]
CMD ["--help"]
