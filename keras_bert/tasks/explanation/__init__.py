"""Explanations of a model's answers: a score for each token.

explained_rows.py   which outputs of a row are explained, and where its tokens are in the texts
gradients.py        integrated gradients and attention rollout of token rows
explaining.py       explain on texts
page.py             explanations as an HTML page
"""
