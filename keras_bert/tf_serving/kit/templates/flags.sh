  # Requests that arrive together are joined: config/batching.config.
  --enable_batching=true
  # The requests in assets.extra run before the server accepts requests of clients.
  --enable_model_warmup=true
  # Seconds between searches for a new folder models/@@{name}/<number>, which is served without a restart.
  --file_system_poll_wait_seconds=10
  # How often loading a model is tried again.
  --max_num_load_retries=2
  # A REST request that takes longer ends with an error.
  --rest_api_timeout_in_ms=30000
