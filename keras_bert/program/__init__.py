"""How a command starts, reports errors, checks columns of input, and reads and writes files.

command_line.py         imports extensions, parses flags, runs a command, returns its exit code
options.py              declares options with bounds and help texts, and checks values
option_flags.py         makes flags of the fields of a dataclass, and the dataclass of the flags
missing_modules.py      says why a module of this project is not found: hidden, or not in the small install
errors.py               InputError: an error that the user can correct
printing.py             makes text safe to show: control characters, long lines, secrets in URLs, Markdown, HTML
atomic_output.py        writes a file or folder completely or not at all
folder_lock.py          allows one writer at a time in a folder, and removes folders of dead writers
long_work.py            shows what long work is doing, and how far it is
user_inputs.py          reads what users pass: texts, lists, arrays, columns of tables, data sets; missing values
removed_flags.py        says what to do instead of flags that went
record_files.py         reads TFRecord files as bytes, plain or compressed
foreign_keys.py         checks that each key of another project's file is used, harmless or refused
number_checks.py        refuses outputs of models that are not numbers
arrow_files.py          maps Arrow files of strangers and checks them; writes ours and Parquet
table_parts.py          writes a table as files in a folder, one by one
foreign_files.py        limits the size of untrusted files, and refuses links and names that lead out of their folder
label_types.py          the types of labels, and labels as strings
json_files.py           reads untrusted JSON: limits its size and checks types; writes ours
stored_numbers.py       varints and checksums as in Google's file formats
private_interfaces.py   lists the private interfaces of Keras and TensorFlow that the package uses
quiet_tensorflow.py     hides TensorFlow's start-up messages
variables_index.py      reads the .index file of a TensorFlow checkpoint
"""
