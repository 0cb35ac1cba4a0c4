"""Networks of torchvision."""
import torch

from networks_base import NETWORKS, First, network, rows


def vision(name, size=64, **arguments):
    def make():
        import torchvision
        return First(getattr(torchvision.models, name)(num_classes=10, **arguments)), (rows(3, size, size),)
    NETWORKS["torchvision/" + name] = make


vision("resnet18", 32)
vision("squeezenet1_1")
vision("mobilenet_v3_small")
vision("shufflenet_v2_x0_5")
vision("mnasnet0_5")
vision("efficientnet_b0", 64)
vision("regnet_y_400mf", 64)


@network("torchvision/vit")
def torchvision_vit():
    from torchvision.models import VisionTransformer
    return VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10), (rows(3, 32, 32),)


@network("torchvision/swin")
def torchvision_swin():
    from torchvision.models import SwinTransformer
    return SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0.0), (rows(3, 32, 32),)


@network("torchvision/swin_v2")
def torchvision_swin_v2():
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformer, SwinTransformerBlockV2
    return SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0.0,
                           block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2), (rows(3, 32, 32),)


@network("torchvision/convnext")
def torchvision_convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], num_classes=10), (rows(3, 32, 32),)


vision("alexnet")
vision("mobilenet_v2", 64, width_mult=0.25)
vision("mobilenet_v3_large", 64, width_mult=0.35)
vision("shufflenet_v2_x1_0", 64)
vision("squeezenet1_0")
vision("regnet_x_400mf", 64)
vision("googlenet", aux_logits=False, init_weights=False)
vision("mnasnet0_75", 64)


@network("torchvision/vgg")
def torchvision_vgg():
    from torchvision.models.vgg import VGG, make_layers
    net = VGG(make_layers([8, "M", 16, "M", 512, "M"]), num_classes=10)
    net.classifier = net.classifier[:0].append(torch.nn.Linear(512 * 49, 10))
    return net, (rows(3, 32, 32),)


@network("torchvision/vgg_bn")
def torchvision_vgg_bn():
    from torchvision.models.vgg import VGG, make_layers
    net = VGG(make_layers([8, "M", 16, "M", 512, "M"], batch_norm=True), num_classes=10)
    net.classifier = net.classifier[:0].append(torch.nn.Linear(512 * 49, 10))
    return net, (rows(3, 32, 32),)


@network("torchvision/densenet")
def torchvision_densenet():
    from torchvision.models import DenseNet
    return DenseNet(8, (2, 2, 2, 2), 16, num_classes=10), (rows(3, 64, 64),)


def residual(name, **arguments):
    def make():
        from torchvision.models.resnet import Bottleneck, ResNet
        return ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, **arguments), (rows(3, 64, 64),)
    NETWORKS["torchvision/" + name] = make


residual("bottleneck")
residual("resnext", groups=4, width_per_group=8)
residual("wide_resnet", width_per_group=96)


@network("torchvision/maxvit")
def torchvision_maxvit():
    from torchvision.models import MaxVit
    return MaxVit((64, 64), 16, 4, [16, 32], [1, 1], 8, 0.0, num_classes=10), (rows(3, 64, 64),)


def segmentation(name, **arguments):
    def make():
        import torchvision
        net = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, num_classes=4, **arguments)
        return Out(net), (rows(3, 64, 64),)
    NETWORKS["torchvision/" + name] = make


class Out(First):
    """The entry "out" of what a network returns."""

    def forward(self, image):
        return self.net(image)["out"]


segmentation("lraspp_mobilenet_v3_large")
segmentation("deeplabv3_mobilenet_v3_large")


@network("torchvision/fcn")
def torchvision_fcn():
    from torchvision.models import resnet18
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.fcn import FCN, FCNHead
    return Out(FCN(IntermediateLayerGetter(resnet18(), {"layer2": "out"}), FCNHead(128, 4))), (rows(3, 64, 64),)


@network("torchvision/video_resnet")
def torchvision_video_resnet():
    from torchvision.models.video.resnet import BasicBlock, BasicStem, Conv3DSimple, VideoResNet
    return VideoResNet(BasicBlock, [Conv3DSimple] * 4, [1, 1, 1, 1], BasicStem, num_classes=10), (rows(3, 4, 32, 32),)
