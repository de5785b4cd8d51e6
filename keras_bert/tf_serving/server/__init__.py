"""A development server for loaded exports, with TensorFlow Serving's REST API and a page to try them.

run_server.py          starts and stops the server
rest_app.py            the routes
model_requests.py      predict, metadata and status of a model
json_tensors.py        JSON <-> arrays
openai_embeddings.py   OpenAI's POST /v1/embeddings
request_limits.py      limits of size, number and time
http_protocol.py       HTTP connections, with limits for slow clients
page.py                serves the page at /, and the labels and examples of models
page.html              the page
page_lines.js          the page's table of many lines
"""
