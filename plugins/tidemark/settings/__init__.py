"""What a person writes: the pipeline file and connections, made valid once, when they are read.

Doors: connections, decode, described, endpoints, errors, exported, fault_texts, field_types,
fields, fingerprint, format, kafka, output, pipeline, registered, sections, target.

It opens no connection, and a value of the file that it has let in is not judged again elsewhere;
what a connection's extra may say is judged by the room of its client.
"""
