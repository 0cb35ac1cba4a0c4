#!/usr/bin/env python3
"""What PyTorch's exporters take apart is found in their files, and training with and without fusion gives the same losses.

    check_patterns.py BUILD/ztrain

The models were written by export_patterns.py; what opset 23 has an operator for, its exporter does not take apart. An activation
is fused into its convolution where that has a fast kernel, which a build without oneDNN has not.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FOUND = {
    'activations-dynamo18': {'conv_activation': 13, 'conv_add': 2, 'gelu': 1, 'softplus': 1, 'swish': 1},
    'activations-dynamo23': {'conv_activation': 13, 'conv_add': 2, 'softplus': 1, 'swish': 1},
    'activations-torchscript14': {'conv_activation': 13, 'conv_add': 2, 'gelu': 1, 'mish': 1, 'swish': 1},
    'activations-torchscript17': {'conv_activation': 13, 'conv_add': 2, 'gelu': 1, 'mish': 1, 'swish': 1},
    'encoder-dynamo18': {'attention': 1, 'gelu': 1, 'gemm': 3},
    'encoder-dynamo23': {'gemm': 3},
    'encoder-torchscript14': {'attention': 1, 'gelu': 1, 'gemm': 3, 'layer_norm': 3},
    'encoder-torchscript17': {'attention': 1, 'gelu': 1, 'gemm': 3},
    'decoder-dynamo18': {'attention': 1, 'attention_heads': 1, 'gemm': 3, 'rms_norm': 2, 'swish': 1},
    'decoder-dynamo23': {'attention': 1, 'attention_heads': 1, 'gemm': 3, 'swish': 1},
    'decoder-torchscript14': {'attention': 1, 'attention_heads': 1, 'gemm': 6, 'rms_norm': 2, 'slices': 1, 'swish': 1},
    'decoder-torchscript17': {'attention': 1, 'attention_heads': 1, 'gemm': 6, 'rms_norm': 2, 'slices': 1, 'swish': 1},
    'gpt2-dynamo18': {'attention': 1, 'attention_heads': 1, 'attention_packed': 1, 'gelu': 1, 'gemm': 3},
    'gpt2-dynamo23': {'attention': 1, 'attention_heads': 1, 'attention_packed': 1, 'gelu': 1, 'gemm': 3},
    'gpt2-torchscript14': {'attention': 1, 'attention_heads': 1, 'attention_packed': 1, 'gelu': 1, 'gemm': 3, 'layer_norm': 1},
    'gpt2-torchscript17': {'attention': 1, 'attention_heads': 1, 'attention_packed': 1, 'gelu': 1, 'gemm': 3},
    'masks-dynamo18': {'attention': 4, 'gemm': 1},
    'masks-dynamo23': {'gemm': 1},
    'masks-torchscript14': {'attention': 4, 'gemm': 1, 'slices': 1},
    'masks-torchscript17': {'attention': 4, 'gemm': 1, 'slices': 1},
    'images-dynamo18': {'conv_activation': 1, 'conv_add': 1, 'gelu': 2, 'group_norm': 1, 'softplus': 1, 'swish': 2},
    'images-dynamo23': {'conv_activation': 1, 'conv_add': 1, 'softplus': 1, 'swish': 2},
    'images-torchscript14': {'conv_activation': 1, 'conv_add': 1, 'gelu': 2, 'group_norm': 1, 'mish': 1, 'swish': 2},
    'images-torchscript17': {'conv_activation': 1, 'conv_add': 1, 'gelu': 2, 'group_norm': 1, 'mish': 1, 'swish': 2},
    'loss-dynamo18': {'log_softmax': 1, 'softmax_loss': 2},
    'loss-dynamo23': {'log_softmax': 1, 'softmax_loss': 2},
    'loss-torchscript14': {'log_softmax': 1, 'softmax_loss': 1},
    'loss-torchscript17': {'log_softmax': 1, 'softmax_loss': 1},
}


def run(*arguments):
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=60)
    if done.returncode:
        sys.exit(f'{arguments}: {done.stderr}')
    return done.stdout


def losses(ztrain, model, config, folder, *more):
    run(ztrain, '--model', model, '--config', config, '--output', folder, '--overwrite', *more)
    return [json.loads(line)['loss'] for line in (folder / 'metrics.jsonl').read_text().splitlines()]


def found(plan):
    """The patterns of the training program's forward graph: " fused: gelu 2, attention 1"."""
    line = next((line for line in plan.splitlines() if line.startswith(' fused: ')), ' fused: ')
    counts = dict(pair.rsplit(' ', 1) for pair in line.removeprefix(' fused: ').split(', ') if pair)
    return {name: int(count) for name, count in counts.items() if not name.startswith(('conv_relu', 'pool_'))}


def has_fast_conv(ztrain):
    return any(line.split()[0] == 'Conv' and 'cpu' in line for line in run(ztrain, 'ops').splitlines() if line.strip())


def check(ztrain, name, wanted, folder):
    model, config = HERE / f'{name}.onnx', folder / 'config.json'
    config.write_text(json.dumps({
        'train_batch_size': 2, 'optimizer': {'type': 'SGD', 'params': {'lr': 0.1}},
        'ztrain': {'data': {'format': 'synthetic', 'samples': 12}, 'steps': 6,
                   'loss': {'type': 'output' if name.startswith('loss') else 'mse'}}}))
    have = found(run(ztrain, 'plan', '--model', model, '--config', config))
    if have != wanted:
        return f'{name}: found {have}, wanted {wanted}'
    fused = losses(ztrain, model, config, folder / 'run')
    apart = losses(ztrain, model, config, folder / 'run', '--set', 'ztrain.fuse=[]')
    if any(abs(a - b) > 1e-5 * abs(b) for a, b in zip(fused, apart, strict=True)):
        return f'{name}: losses {fused} with fusion, {apart} without'
    return None


def main():
    files = {path.stem for path in HERE.glob('*.onnx')}
    problems = [f'{name}: no such file, or nothing is said of it' for name in files ^ FOUND.keys()]
    with tempfile.TemporaryDirectory() as folder:
        fast = has_fast_conv(sys.argv[1])
        for name in sorted(files & FOUND.keys()):
            wanted = {pattern: count for pattern, count in FOUND[name].items() if fast or pattern not in ('conv_activation', 'conv_add')}
            problems.append(check(sys.argv[1], name, wanted, pathlib.Path(folder)))
    problems = [problem for problem in problems if problem]
    print('\n'.join(problems) or f'{len(FOUND)} models: every pattern found, losses agree')
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main())
