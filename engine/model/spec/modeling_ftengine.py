"""Opens with transformers a classifier that ftengine trained with hidden layers in its head (model.head.hidden):

    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(directory, trust_remote_code=True)
    tokenizer = AutoTokenizer.from_pretrained(directory)

The class is the family's own, with (linear layer, activation, dropout) for each width in the configuration's ftengine_head between
the pooled output and the classifier. Without trust_remote_code transformers opens the family's class, which has no such layers.
"""

from torch import nn
from transformers import BertForSequenceClassification as Family
from transformers.activations import ACT2FN


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
        if head is None:
            return
        owner, name = (self.classifier, "out_proj") if hasattr(self.classifier, "out_proj") else (self, "classifier")
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

    def through_head(self, classifier, arguments):
        return (self.hidden_layers(arguments[0]),)
