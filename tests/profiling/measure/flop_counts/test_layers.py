"""Model FLOPs, compared with a count by hand and with the counters of TensorFlow and PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers

from accelbench.profiling.measure.flop_counts.layers import model_bytes, model_flops


def tensorflow_forward_flops(model: Any, batch: int) -> int:
    """Return the FLOPs of one forward pass by TensorFlow's graph profiler, which include activations and biases."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    from tensorflow.python.profiler import model_analyzer, option_builder

    shape = (batch, *model.input_shape[1:])
    function = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    graph = convert_variables_to_constants_v2(function).graph
    options = option_builder.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    return int(model_analyzer.profile(graph, options=options).total_float_ops)


def sequential(*stack: Any) -> Any:
    return keras.Sequential(list(stack))


@pytest.mark.needs("tensorflow")
@settings(max_examples=10, deadline=None)
@given(
    size=st.integers(5, 12),
    channels=st.integers(1, 4),
    filters=st.integers(1, 8),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    batch=st.integers(1, 3),
)
def test_convolutions_agree_with_tensorflows_counter(
    size: int, channels: int, filters: int, kernel: int, stride: int, batch: int
) -> None:
    model = sequential(
        keras.Input((size, size, channels)), layers.Conv2D(filters, kernel, strides=stride, use_bias=False)
    )
    assert model_flops(model, batch).forward == tensorflow_forward_flops(model, batch)


@pytest.mark.needs("tensorflow")
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_grouped_and_padded_convolutions(padding: str) -> None:
    model = sequential(
        keras.Input((9, 9, 4)),
        layers.Conv2D(8, 3, padding=padding, use_bias=False),
        layers.Conv2D(4, 3, padding=padding, groups=2, use_bias=False),
    )
    by_hand = {"valid": 2 * (49 * 9 * 4 * 8 + 25 * 9 * 4 * 4), "same": 2 * (81 * 9 * 4 * 8 + 81 * 9 * 4 * 4)}
    assert model_flops(model, 1).forward == by_hand[padding]


def test_the_backward_pass_has_two_products_per_layer_but_none_for_the_first_input() -> None:
    model = sequential(keras.Input((10,)), layers.Dense(20), layers.Dense(3))
    flops = model_flops(model, batch=7)
    assert flops.forward == 2 * 7 * (200 + 60)
    assert flops.backward == 2 * 7 * (200 + 2 * 60)
    assert flops.training == flops.forward + flops.backward


def test_a_dense_layer_on_a_sequence_counts_every_position() -> None:
    model = sequential(keras.Input((5, 10)), layers.Dense(20))
    assert model_flops(model, 1).forward == 2 * 5 * 200


def test_layers_without_products_count_nothing() -> None:
    model = sequential(
        keras.Input((8, 8, 1)),
        layers.BatchNormalization(),
        layers.MaxPooling2D(2),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(2),
    )
    assert model_flops(model, 1).forward == 2 * 16 * 2


def papers_network() -> Any:
    return sequential(
        keras.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(10, activation="softmax"),
    )


def padded_and_strided() -> Any:
    return sequential(
        keras.Input((11, 9, 3)),
        layers.Conv2D(8, 3, strides=2, padding="same"),
        layers.Conv2D(6, 5, padding="same"),
        layers.GlobalMaxPooling2D(),
    )


def one_dimensional() -> Any:
    return sequential(keras.Input((12, 3)), layers.Conv1D(4, 3), layers.Conv1D(5, 3, strides=2))


def volumes() -> Any:
    return sequential(
        keras.Input((6, 6, 6, 2)), layers.Conv3D(4, 3), layers.Conv3D(5, 2), layers.Flatten(), layers.Dense(2)
    )


def stacked_lstm() -> Any:
    return sequential(keras.Input((6, 9)), layers.LSTM(4, return_sequences=True), layers.LSTM(5), layers.Dense(3))


def gru() -> Any:
    return sequential(keras.Input((6, 9)), layers.GRU(4), layers.Dense(3))


def words_in_both_directions() -> Any:
    return sequential(
        keras.Input((6,)),
        layers.Embedding(50, 9),
        layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
        layers.Bidirectional(layers.GRU(5)),
        layers.Dense(3),
    )


def branches() -> Any:
    image = keras.Input((8, 8, 3))
    both = layers.Add()([layers.Conv2D(4, 3, padding="same")(image), layers.Conv2D(4, 1)(image)])
    normal = layers.BatchNormalization()(both)
    residual = layers.Add()([normal, layers.Conv2D(4, 3, padding="same")(normal)])
    return keras.Model(image, layers.Dense(5)(layers.GlobalAveragePooling2D()(residual)))


def partly_frozen() -> Any:
    return sequential(
        keras.Input((10,)),
        layers.Dense(20, trainable=False),
        layers.Dense(7),
        layers.Dense(9, trainable=False),
        layers.Dense(3),
    )


@pytest.mark.parametrize(
    ("build", "batch", "forward", "backward"),
    [
        (papers_network, 8, 191_879_168, 380_643_328),
        (padded_and_strided, 4, 339_840, 627_840),
        (one_dimensional, 3, 3_600, 5_040),
        (volumes, 3, 110_484, 138_024),
        (stacked_lstm, 5, 23_430, 36_580),
        (gru, 5, 9_480, 12_000),
        (words_in_both_directions, 5, 48_660, 94_540),
        (branches, 3, 101_496, 156_912),
        (partly_frozen, 7, 6_020, 3_598),
    ],
)
def test_forward_and_backward_agree_with_pytorchs_counter(
    build: Callable[[], Any], batch: int, forward: int, backward: int
) -> None:
    """Compare with the counts of torch 2.13's FlopCounterMode on Keras 3.15's torch backend for the same models.

    `with FlopCounterMode() as count: y = model(x, training=True)`, then the same around `y.sum().backward()`. Models
    with grouped or depthwise convolutions are left out, since FlopCounterMode ignores the groups in the backward pass,
    and so are SimpleRNN and GRU(reset_after=False), since that backend computes their first step twice.
    """
    flops = model_flops(build(), batch)
    assert (flops.forward, flops.backward) == (forward, backward)


def test_a_depthwise_convolution_sums_over_its_taps_only() -> None:
    model = sequential(
        keras.Input((9, 9, 4)),
        layers.Conv2D(6, 1, use_bias=False),
        layers.DepthwiseConv2D(3, depth_multiplier=2, use_bias=False),
    )
    pointwise, depthwise = 9 * 9 * 4 * 6, 7 * 7 * 9 * 6 * 2
    assert model_flops(model, 2).forward == 2 * 2 * (pointwise + depthwise)
    assert model_flops(model, 2).backward == 2 * 2 * (pointwise + 2 * depthwise)


@settings(max_examples=10, deadline=None)
@given(
    steps=st.integers(1, 6),
    inputs=st.integers(1, 5),
    units=st.integers(1, 5),
    layer=st.sampled_from([(layers.SimpleRNN, 1), (layers.GRU, 3), (layers.LSTM, 4)]),
)
def test_a_recurrent_layer_counts_its_gates_at_every_step(steps: int, inputs: int, units: int, layer: Any) -> None:
    kind, gates = layer
    model = sequential(keras.Input((steps, inputs)), kind(units))
    from_input, from_state = inputs * gates * units, units * gates * units
    flops = model_flops(model, 3)
    assert flops.forward == 2 * 3 * steps * (from_input + from_state)
    # The input of the first layer needs no gradient, nor does the constant state before the first step.
    assert flops.backward == flops.forward + 2 * 3 * (steps - 1) * from_state


def test_flops_are_proportional_to_the_batch() -> None:
    one, many = (model_flops(papers_network(), batch) for batch in (1, 128))
    assert (many.forward, many.training) == (128 * one.forward, 128 * one.training)


@pytest.mark.parametrize(
    "layer",
    [layers.ConvLSTM1D(2, 1, name="unheard"), layers.EinsumDense("abc,cd->abd", (None, 3), name="unheard")],
    ids=["recurrent convolution", "einsum"],
)
def test_an_unknown_layer_is_refused(layer: Any) -> None:
    shape = (5, 3, 2) if isinstance(layer, layers.ConvLSTM1D) else (5, 3)
    with pytest.raises(TypeError, match=r"'unheard' \(\w+\)"):
        model_flops(sequential(keras.Input(shape), layer), 1)


def test_a_layer_with_products_without_weights_is_refused() -> None:
    words = keras.Input((5, 3))
    model = keras.Model(words, layers.Dot(axes=1, name="gram")([words, words]))
    with pytest.raises(TypeError, match="gram"):
        model_flops(model, 1)


def test_a_shared_layer_counts_each_call() -> None:
    shared, image = layers.Dense(4), keras.Input((4,))
    flops = model_flops(keras.Model(image, layers.Dense(2)(shared(shared(image)))), 3)
    assert flops.forward == 2 * 3 * (16 + 16 + 8)
    # The first call's input needs no gradient, its weights do.
    assert flops.backward == 2 * 3 * (16 + 2 * 16 + 2 * 8)


def test_a_model_inside_a_model_counts_like_its_layers() -> None:
    def build(inside: bool) -> Any:
        image = keras.Input((8, 8, 3))
        features = layers.Conv2D(5, 3)(layers.Conv2D(4, 3)(image))
        if inside:
            features = keras.Model(image, features)(outer := keras.Input((8, 8, 3)))
            image = outer
        return keras.Model(image, layers.Dense(2)(layers.Flatten()(features)))

    assert model_flops(build(True), 2) == model_flops(build(False), 2)


def test_a_sequential_model_made_step_by_step_counts_like_one_made_at_once() -> None:
    model = keras.Sequential([keras.Input((6, 9))])
    model.add(layers.Bidirectional(layers.LSTM(4, return_sequences=True)))
    model.add(layers.LSTM(5))
    at_once = sequential(
        keras.Input((6, 9)), layers.Bidirectional(layers.LSTM(4, return_sequences=True)), layers.LSTM(5)
    )
    assert model_flops(model, 2) == model_flops(at_once, 2)


def test_a_custom_layer_declares_its_products() -> None:
    class Own(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x

        def products(self) -> int:
            return 7

    flops = model_flops(sequential(keras.Input((4,)), layers.Dense(3), Own()), 2)
    assert flops.forward == 2 * 2 * (12 + 7)


def test_a_sequence_of_unknown_length_is_refused() -> None:
    model = sequential(keras.Input((None, 3)), layers.LSTM(4, name="endless"))
    with pytest.raises(TypeError, match=r"'endless'.* fixed shape"):
        model_flops(model, 1)


def compiled(model: Any, optimizer: str = "sgd") -> Any:
    model.compile(optimizer, "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def test_the_traffic_of_two_dense_layers_by_hand() -> None:
    model = compiled(sequential(keras.Input((30,)), layers.Dense(20, activation="relu"), layers.Dense(10)))
    forward = (30 + 20) + (20 + 10)
    backward = (20 + 30) + (10 + 20 + 20)  # the gradient of the model's own input is not written
    weights = 30 * 20 + 20 + 20 * 10 + 10
    steps = 8 if keras.backend.backend() == "tensorflow" else 4  # SGD's step counter, an int64 or an int32
    slots = steps + 4  # and SGD's learning rate
    assert model_bytes(model, 7) == 4 * 7 * (forward + backward) + 4 * 6 * weights + 2 * slots


def test_the_traffic_includes_the_optimisers_moments() -> None:
    plain, adam = (
        model_bytes(compiled(sequential(keras.Input((8,)), layers.Dense(5)), name), 1) for name in ("sgd", "adam")
    )
    assert adam - plain == 2 * 4 * 2 * 45


def test_half_precision_halves_the_activations_and_not_the_weights() -> None:
    single, half = (
        compiled(sequential(keras.Input((50,)), layers.Dense(40, dtype=policy))) for policy in (None, "mixed_bfloat16")
    )
    fixed = 2 * model_bytes(single, 1) - model_bytes(single, 2)
    assert model_bytes(half, 10) - fixed == (model_bytes(single, 10) - fixed) / 2


def test_a_frozen_layer_has_no_gradient_traffic() -> None:
    def model(trainable: bool) -> Any:
        first = layers.Dense(64, trainable=trainable)
        return compiled(sequential(keras.Input((64,)), first, layers.Dense(8)))

    weights, activations = 64 * 64 + 64, 64 + 64 + 64  # read its input again, read its gradient, write the next one's
    assert model_bytes(model(True), 1) - model_bytes(model(False), 1) == 4 * (4 * weights + activations)


def test_layers_without_products_have_no_traffic() -> None:
    bare = compiled(sequential(keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(2)))
    dressed = compiled(
        sequential(
            *(keras.Input((8, 8, 3)), layers.Conv2D(4, 3), layers.ReLU(), layers.Dropout(0.5)),
            *(layers.Flatten(), layers.Dense(2), layers.Softmax()),
        )
    )
    # Dropout has a state of its random numbers, which is read and not trained.
    assert 0 <= model_bytes(dressed, 3) - model_bytes(bare, 3) <= 2 * 2 * 8
