"""Vision models in the manner of the usual libraries: a ViT, a ResNet, a ResNet with norms inside its branches."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class VitAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q * self.scale @ k.transpose(-2, -1)).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class VitBlock(nn.Module):
    """Pre-norm attention and perceptron; with `layer_scale`, a gain ends each branch."""

    def __init__(self, width, heads, layer_scale):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = VitAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.gains = (
            nn.ParameterList([nn.Parameter(1e-4 * torch.ones(width)) for _ in range(2)]) if layer_scale else (1, 1)
        )

    def forward(self, h):
        h = h + self.gains[0] * self.attn(self.norm1(h))
        return h + self.gains[1] * self.mlp(self.norm2(h))


class Vit(nn.Module):
    def __init__(self, width, depth, heads=None, layer_scale=False):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, 8, stride=8)
        self.cls_token = nn.Parameter(0.02 * torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 17, width))
        self.blocks = nn.Sequential(*[VitBlock(width, heads or width // 8, layer_scale) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        h = self.patch_embed(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.cls_token.expand(len(x), -1, -1), h], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(h))[:, 0])


def shortcut(before, after, stride):
    layers = nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
    return None if before == after and stride == 1 else nn.Sequential(*layers)


class BasicBlock(nn.Module):
    """relu(h + branch): the stream passes an activation."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn1, self.bn2, self.downsample = (
            nn.BatchNorm2d(after),
            nn.BatchNorm2d(after),
            shortcut(before, after, stride),
        )
        nn.init.zeros_(self.bn2.weight)  # as libraries do on request

    def forward(self, h):
        branch = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(h)))))
        return F.relu(branch + (h if self.downsample is None else self.downsample(h)))


class PreBlock(nn.Module):
    """h + branch, norms and activations inside the branch."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, before), nn.GroupNorm(4, after)
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.downsample = shortcut(before, after, stride)

    def forward(self, h):
        branch = self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(h))))))
        return branch + (h if self.downsample is None else self.downsample(h))


class ResNet(nn.Module):
    """A stem, stages twice as wide as the one before, pooling and a readout."""

    def __init__(self, width, depth, block=PreBlock, stages=3):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        for stage in range(stages):
            before, after = width * 2 ** max(stage - 1, 0), width * 2**stage
            blocks = [block(before if n == 0 else after, after, 2 if stage and n == 0 else 1) for n in range(depth)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.stages, self.fc = stages, nn.Linear(width * 2 ** (stages - 1), 10)

    def forward(self, x):
        h = F.relu(self.bn(self.stem(x)))
        for stage in range(self.stages):
            h = getattr(self, f"layer{stage + 1}")(h)
        return self.fc(h.mean((2, 3)))
