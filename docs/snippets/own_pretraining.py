from keras_bert import AdamW, BertConfig, BertPretrainer, Vocabulary, WarmupLinearDecay, pretraining_dataset

vocabulary = Vocabulary.from_file("vocab.txt")
config = BertConfig.from_size("tiny", vocab_size=len(vocabulary))
dataset = pretraining_dataset("records/*.tfrecord", batch_size=32, config=config)

model = BertPretrainer(config)
model.compile(optimizer=AdamW(WarmupLinearDecay(peak=1e-3, num_train_steps=1000, num_warmup_steps=100)))
model.fit(dataset, epochs=10, steps_per_epoch=100)
model.save_pretrained("my_bert", vocabulary)
