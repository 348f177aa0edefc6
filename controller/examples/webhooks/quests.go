package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	v1 "github.com/bellerophon-io/bellerophon/controller/examples/webhooks/api/v1"
	v2 "github.com/bellerophon-io/bellerophon/controller/examples/webhooks/api/v2"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validate denies what no schema can express: a reward is never lowered.
func validate(_ context.Context, request webhook.Request[*v2.Quest]) error {
	quest := request.New
	if request.Operation == admissionv1.Update && quest.Spec.Reward.Amount < request.Old.Spec.Reward.Amount {
		return field.Invalid(field.NewPath("spec", "reward", "amount"), quest.Spec.Reward.Amount, "a promised reward cannot be lowered")
	}
	if quest.Spec.Monster == "pegasus" {
		return errors.New("pegasus is no monster")
	}
	if quest.Spec.Reward.Amount == 0 {
		request.Warn("no hero will fight %s for nothing", quest.Spec.Monster)
	}
	return nil
}

// setDefaults sets the currency of a reward.
func setDefaults(_ context.Context, quest *v2.Quest) error {
	if quest.Spec.Reward.Currency == "" {
		quest.Spec.Reward.Currency = "drachmas"
	}
	return nil
}

// toV2 converts a quest of the first version. Its metadata is in place already.
func toV2(_ context.Context, from *v1.Quest, to *v2.Quest) error {
	amount, currency, _ := strings.Cut(from.Spec.Reward, " ")
	parsed, err := strconv.ParseInt(amount, 10, 32)
	if err != nil {
		return fmt.Errorf("the reward is %q: %w", from.Spec.Reward, err)
	}
	to.Spec = v2.QuestSpec{Monster: from.Spec.Monster, Reward: v2.Reward{Amount: int32(parsed), Currency: currency}}
	return nil
}

// toV1 converts a quest of the second version.
func toV1(_ context.Context, from *v2.Quest, to *v1.Quest) error {
	reward := from.Spec.Reward
	to.Spec = v1.QuestSpec{Monster: from.Spec.Monster, Reward: strings.TrimSpace(fmt.Sprint(reward.Amount, " ", reward.Currency))}
	return nil
}
