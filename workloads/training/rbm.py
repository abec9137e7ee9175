"""Restricted Boltzmann machine with Bernoulli units, trained by contrastive divergence.

A joint state of v visible and h hidden units has the energy E(v, h) = −b·v − c·h − v·W·h and the probability
exp(−E)/Z. Given the visible units, the hidden units are independent, P(h = 1 | v) = σ(c + v·W), and vice versa,
P(v = 1 | h) = σ(b + W·h). Summed over all hidden states, P(v) = exp(−F(v))/Z with the free energy
F(v) = −b·v − Σ softplus(c + v·W).

G. E. Hinton, "Training Products of Experts by Minimizing Contrastive Divergence", Neural Computation 14 (2002), and
"A Practical Guide to Training Restricted Boltzmann Machines", UTML TR 2010-003.
"""

from __future__ import annotations

from typing import Any

INITIAL_DEVIATION = 0.01
"""Standard deviation of the random initial weights (Hinton's guide, section 8)."""


def rbm(visible: int, hidden: int, *, k: int, seed: int) -> Any:
    """Return a Keras model that `fit` trains by CD-k on visible vectors (batch, visible) of values from 0 to 1.

    Calling the model returns the total input of the hidden units, c + v·W, of shape (batch, hidden). The history has
    the loss, F(v⁰) − F(vᵏ) averaged over the batch, and the `reconstruction_error`: the mean squared error per visible
    unit of the probabilities of the chain's first reconstruction.
    """
    import keras
    from keras import ops

    class RBM(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="rbm")
            self.noise = keras.random.SeedGenerator(seed)
            self.error = keras.metrics.Mean(name="reconstruction_error")

        def build(self, input_shape: tuple[int | None, ...]) -> None:
            normal = keras.initializers.RandomNormal(stddev=INITIAL_DEVIATION, seed=seed)
            self.kernel = self.add_weight(shape=(visible, hidden), initializer=normal, name="kernel")
            self.visible_bias = self.add_weight(shape=(visible,), initializer="zeros", name="visible_bias")
            self.hidden_bias = self.add_weight(shape=(hidden,), initializer="zeros", name="hidden_bias")

        def call(self, v: Any) -> Any:
            return self.times(v, self.kernel) + self.hidden_bias

        def times(self, states: Any, kernel: Any) -> Any:
            """Multiply in the policy's compute dtype, and return float32 for the sums over many terms that follow."""
            product = ops.matmul(ops.cast(states, self.compute_dtype), ops.cast(kernel, self.compute_dtype))
            return ops.cast(product, "float32")

        def free_energy(self, v: Any, hidden_input: Any) -> Any:
            """Return F(v) of every row; `hidden_input` is the result of `call`."""
            return -ops.sum(v * self.visible_bias, axis=-1) - ops.sum(ops.softplus(hidden_input), axis=-1)

        def sample(self, total_input: Any) -> Any:
            """Sample units that are 1 with probability σ(input), else 0."""
            draws = keras.random.uniform(ops.shape(total_input), dtype="float32", seed=self.noise)
            return ops.cast(draws < ops.sigmoid(total_input), "float32")

        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
        ) -> Any:
            """Return the free energy of the data minus the free energy at the chain's end; its gradient is CD-k.

            −∂log P(v⁰) = ∂F(v⁰) − E[∂F(v)], where the expectation over the model's distribution is approximated by the
            end of a Gibbs chain of k steps, treated as a constant.
            """
            x = ops.convert_to_tensor(x, "float32")
            v, hidden_input = x, ops.stop_gradient(y_pred)
            for step in range(k):
                if step:
                    hidden_input = self(v)
                visible_input = self.times(self.sample(hidden_input), ops.transpose(self.kernel)) + self.visible_bias
                if step == 0:
                    self.error.update_state(ops.square(x - ops.sigmoid(visible_input)))
                v = ops.stop_gradient(self.sample(visible_input))
            return ops.mean(self.free_energy(x, y_pred) - self.free_energy(v, self(v)))

    machine = RBM()
    machine.build((None, visible))
    return machine
