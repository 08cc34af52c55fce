"""Opens with transformers a classifier whose head ftengine trained with hidden layers (model.head.hidden) or on the mean of a text's rows
(model.head.pooling):

    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(directory)

The class is the family's own, with (linear layer, activation, dropout) for each width in the configuration's ftengine_head between
the pooled output and the classifier; ClassifierOfMeans pools by the mean of all rows, and has nothing else in front of those. Without
trust_remote_code transformers opens the family's class, which does neither.
"""

import torch
from torch import nn
from transformers import BertForSequenceClassification as Family
from transformers.activations import ACT2FN
from transformers.loss.loss_utils import ForSequenceClassificationLoss
from transformers.modeling_outputs import SequenceClassifierOutput


class HiddenLayers(nn.Module):
    """From rows of `inputs` numbers to rows of widths[-1]."""

    def __init__(self, inputs, widths, activation, dropout):
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in zip([inputs, *widths], widths))
        self.activation = ACT2FN[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows):
        for layer in self.hidden:
            rows = self.dropout(self.activation(layer(rows)))
        return rows


class ClassifierWithHead(Family):
    def __init__(self, config, *arguments, **options):
        super().__init__(config, *arguments, **options)
        head = getattr(config, "ftengine_head", None)
        if not head or not head["hidden"]:
            return
        owner, name = self.last_layer()
        last = getattr(owner, name)
        layers = HiddenLayers(last.in_features, head["hidden"], head["activation"], head["dropout"])
        if isinstance(getattr(self, "head", None), nn.Module):  # ModernBERT's own has the name: they stand beside its layers
            self.head.hidden = layers.hidden
        else:
            self.head = layers
        object.__setattr__(self, "hidden_layers", layers)  # under one name in the state
        last = nn.Linear(head["hidden"][-1], last.out_features)
        last.register_forward_pre_hook(self.through_head)
        setattr(owner, name, last)
        self.post_init()

    def last_layer(self):
        return (self.classifier, "out_proj") if hasattr(self.classifier, "out_proj") else (self, "classifier")

    def through_head(self, classifier, arguments):
        return (self.hidden_layers(arguments[0]),)


class ClassifierOfMeans(ClassifierWithHead):
    def __init__(self, config, *arguments, **options):
        super().__init__(config, *arguments, **options)
        head = config.ftengine_head
        if "pooler" in head:  # nothing reads it
            owner, _, name = head["pooler"].rpartition(".")
            setattr(self.get_submodule(owner), name, nn.Identity())
        self.mean_dropout = nn.Dropout(head["classifier_dropout"])

    def forward(self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None, labels=None, **options):
        if token_type_ids is not None:  # not every family takes them
            options["token_type_ids"] = token_type_ids
        options["return_dict"] = True
        read = getattr(self, self.base_model_prefix)(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **options)
        rows = read.last_hidden_state
        weights = torch.ones(rows.shape[:2], device=rows.device) if attention_mask is None else attention_mask
        weights = weights.to(rows.dtype).unsqueeze(-1)
        mean = (rows * weights).sum(1) / weights.sum(1)
        owner, name = self.last_layer()
        logits = getattr(owner, name)(self.mean_dropout(mean))
        loss = None if labels is None else ForSequenceClassificationLoss(labels, logits, self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=read.get("hidden_states"), attentions=read.get("attentions"))
