"""Model FLOPs, by hand and against TensorFlow's own counter."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers

from profiling.flops import model_flops


def tensorflow_forward_flops(model: Any, batch: int) -> int:
    """What TensorFlow's graph profiler counts for one forward pass; it counts activations and biases, too."""
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


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_grouped_and_padded_convolutions_agree_too(padding: str) -> None:
    model = sequential(
        keras.Input((9, 9, 4)),
        layers.Conv2D(8, 3, padding=padding, use_bias=False),
        layers.Conv2D(4, 3, padding=padding, groups=2, use_bias=False),
    )
    by_hand = {"valid": 2 * (49 * 9 * 4 * 8 + 25 * 9 * 4 * 4), "same": 2 * (81 * 9 * 4 * 8 + 81 * 9 * 4 * 4)}
    assert model_flops(model, 1).forward == by_hand[padding]


def test_the_backward_pass_is_two_products_a_layer_less_the_first_inputs() -> None:
    model = sequential(keras.Input((10,)), layers.Dense(20), layers.Dense(3))
    flops = model_flops(model, batch=7)
    assert flops.forward == 2 * 7 * (200 + 60)
    assert flops.backward == 2 * 7 * (200 + 2 * 60)
    assert flops.training == flops.forward + flops.backward


def test_a_dense_layer_on_a_sequence_runs_at_every_position() -> None:
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


def test_a_layer_that_is_not_known_is_named_and_never_counted_as_nothing() -> None:
    model = sequential(keras.Input((5, 3)), layers.SimpleRNN(4, name="recurrent"))
    with pytest.raises(TypeError, match="recurrent"):
        model_flops(model, 1)
