package controller_test

import (
	"context"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file holds the own writes of the reconcilers. Only the controller of config maps writes
// things, and no two attempts of a key overlap. So each key has one own writer.

// newToken returns a token for an own write.
func (o *oracle) newToken() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.token()
}

// answered records a write that the server has answered. Readers must see it from then on.
func (o *oracle) answered(attempt *oracleAttempt, thing *oracleThing, token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrote(thing, token)
	if _, reads := attempt.read[thing]; reads && o.options.ignoresEchoes {
		attempt.read[thing] = token // The echo causes no further attempt.
	}
}

// patch patches the config map of an attempt.
func (o *oracle) patch(ctx context.Context, attempt *oracleAttempt) error {
	thing := o.thing(attempt.letter)
	if thing.kind != o.configs {
		return nil
	}
	object, found := o.manager.Cache().Store(thing.kind.group).Get(thing.name)
	if !found {
		return nil
	}
	token := o.newToken()
	var err error
	switch before := object.(type) {
	case *corev1.ConfigMap:
		after := before.DeepCopy()
		after.Annotations[oracleToken] = token
		_, err = controller.Patch(ctx, o.manager.Client(), after, controller.MergeFrom(before))
	case *controller.Metadata[corev1.ConfigMap]:
		after := before.DeepCopy()
		after.Annotations[oracleToken] = token
		_, err = controller.Patch(ctx, o.manager.Client(), after, controller.MergeFrom(before))
	}
	if err == nil {
		o.answered(attempt, thing, token)
	}
	return err
}

// createChild creates the first secret that a config map reads, if there is one.
func (o *oracle) createChild(ctx context.Context, attempt *oracleAttempt) error {
	at := strings.IndexAny(oracleKeys["configs"][attempt.letter], "efg")
	if at < 0 {
		return nil
	}
	thing := o.thing(oracleKeys["configs"][attempt.letter][at])
	token := o.newToken()
	_, err := controller.Create(ctx, o.manager.Client(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: thing.name.Namespace, Name: thing.name.Name, Annotations: map[string]string{oracleToken: token},
	}})
	if err == nil {
		o.answered(attempt, thing, token)
	}
	return err
}

// createOutside creates a config map that no watch shows, if the options allow for one.
func (o *oracle) createOutside(ctx context.Context) error {
	outside := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "x", GenerateName: "outside-"}}
	switch {
	case len(o.options.namespaces) > 0:
		outside.Namespace = "elsewhere"
	case !o.options.selects:
		return nil
	}
	_, err := controller.Create(ctx, o.manager.Client(), outside)
	return err
}
