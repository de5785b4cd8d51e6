"""TensorFlow Serving's messages, without TensorFlow.

message_fields.py   the messages as tables: field names, numbers and types
messages.py         protobuf classes made from these tables
tensors.py          arrays <-> TensorProto
strings.py          str <-> bytes
methods.py          gRPC method paths, status codes, and the path of metrics
text_files.py       messages in protobuf's text format
"""
