  # Requests that arrive together run together: config/batching.config.
  --enable_batching=true
  # The requests in assets.extra are answered before clients may ask.
  --enable_model_warmup=true
  # A new folder models/@@{name}/<number> is served without a restart, looked for so often.
  --file_system_poll_wait_seconds=10
  # A model that does not load is tried again so many times.
  --max_num_load_retries=2
  # A request over REST that takes longer is given up.
  --rest_api_timeout_in_ms=30000
