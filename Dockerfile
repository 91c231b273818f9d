# The scoring service (docs/service.md). Models are mounted at /models; NPTAD_TOKEN is the token of clients.
FROM python:3.12-slim AS build
WORKDIR /source
COPY constraints.txt ./
RUN python -m venv /opt/nptad \
    && /opt/nptad/bin/pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu -c constraints.txt torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/nptad/bin/pip install --no-cache-dir -c constraints.txt ".[service]"

FROM python:3.12-slim
COPY --from=build /opt/nptad /opt/nptad
ENV PATH=/opt/nptad/bin:$PATH
USER 10001:10001
EXPOSE 8766
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8766/health', timeout=4)"]
ENTRYPOINT ["nptad", "api", "--host", "0.0.0.0"]
CMD ["/models/current"]
