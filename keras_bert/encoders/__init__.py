"""One place for each model family: a file where numbers and names suffice, a folder where it computes differently.

Each has an entry `FAMILY`, which `keras_bert/registry.py` lists. Entries load neither Keras nor TensorFlow.

bert/              BERT
roberta.py         RoBERTa
xlm_roberta.py     XLM-RoBERTa and CamemBERT
mpnet/             MPNet
deberta/           DeBERTa-v2 and -v3
albert.py          ALBERT
distilbert.py      DistilBERT
electra.py         ELECTRA
long/              Longformer and BigBird
mobile_bert/       MobileBERT
rotary/            ModernBERT, NomicBERT, GTE, jina-embeddings-v3, EuroBERT, Gemma: rotary positions
xlnet/             XLNet
transformer_xl/    Transformer-XL
static/            static models: a table of token vectors
stream_memory.py   the memory that a batch leaves to the next one, of XLNet and Transformer-XL
"""
