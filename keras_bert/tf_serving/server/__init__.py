"""A development server: TensorFlow Serving's REST API for any SavedModel.

run_server.py          starts and stops the server
server_options.py      the options of a server
rest_app.py            REST, health check and the page
openai_embeddings.py   OpenAI's POST /v1/embeddings
http_protocol.py       HTTP connections, with limits for slow clients
inference.py           predict, classify and regress on arrays
model_config.py        the models to serve, from folders or models.config
model_store.py         finds, loads, lends and unloads versions
loaded_model.py        one version in a TensorFlow session
warm_up.py             runs the warm-up requests of a version
page_examples.py       the labels of a model, and examples from its warm-up requests, for the page
json_text.py           parses and writes JSON as TensorFlow Serving does
json_tensors.py        JSON <-> arrays
json_examples.py       JSON <-> tf.Example, classes and scores
model_messages.py      the JSON of metadata and status of models
status.py              status codes and errors
page.py                serves the page at /
page.html              the page
page_lines.js          the page's table of many lines
page_models.js         the page's list of models
"""
