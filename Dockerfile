# docker build -t spice . && docker run --network none -v "$PWD/photos:/photos:ro" -v "$PWD:/out" spice cluster /photos --out /out/photos.spice
FROM python:3.12-slim
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# --build-arg PIP_EXTRA_INDEX_URL=... with PyTorch's index of CPU builds makes the image several gigabytes smaller.
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir --constraint constraints.txt . && useradd --create-home spice
USER spice
WORKDIR /out
ENTRYPOINT ["spice"]
CMD ["--help"]
