package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// webhooksName is the name of the configurations of webhooks without a Service.
const webhooksName = "hooks"

// errTooEarly is the error of a run whose snapshots would lack objects.
var errTooEarly = errors.New("its snapshots are not complete yet")

// reviewer answers the API server with what hooks answer. Its runs are not queued.
type reviewer struct {
	logger *slog.Logger
	client *controller.Client
	level  func() cache.Level // of the manager
	ask    func(ctx context.Context, hook *Hook, contexts []map[string]any, answer string) ([]byte, error)
}

// serveWebhooks makes the manager serve the webhooks of the hooks, if there are any.
func (r *reviewer) serveWebhooks(manager *controller.Manager, config *rest.Config, hooks []*Hook, options webhook.Options) error {
	if !slices.ContainsFunc(hooks, func(hook *Hook) bool { return hook.Config.hasWebhooks() }) {
		return nil
	}
	if options.Service == "" && options.URL == "" {
		return errors.New("hooks have webhooks; say with --webhook-service or --webhook-url how API servers reach this program")
	}
	if options.URL != "" && options.Name == "" {
		options.Name = webhooksName
	}
	options.Logger = r.logger
	server, err := webhook.New(config, scheme.Scheme, options)
	if err != nil {
		return err
	}
	if err := r.addTo(server, hooks); err != nil {
		return err
	}
	// It starts before the watches, because lists of custom resources may need its conversions.
	return manager.AddRunnable(controller.Runnable{Name: "webhooks", Run: server.Run, EveryReplica: true})
}

// addTo adds the webhooks of the hooks to a server.
func (r *reviewer) addTo(server *webhook.Server, hooks []*Hook) error {
	var wrong []error
	converts := map[string][]conversionStep{}
	for _, hook := range hooks {
		var errs []error
		for i := range hook.Config.Validating {
			binding := &hook.Config.Validating[i]
			entry := binding.entry()
			errs = append(errs, webhook.ReviewValidating(server, admissionregistrationv1.ValidatingWebhook{
				Name: entry.Name, Rules: entry.Rules, NamespaceSelector: entry.NamespaceSelector, ObjectSelector: entry.ObjectSelector,
				FailurePolicy: entry.FailurePolicy, SideEffects: entry.SideEffects, TimeoutSeconds: entry.TimeoutSeconds, MatchConditions: entry.MatchConditions,
			}, r.admits(hook, binding, validating)))
		}
		for i := range hook.Config.Mutating {
			binding := &hook.Config.Mutating[i]
			errs = append(errs, webhook.ReviewMutating(server, binding.entry(), r.admits(hook, binding, mutating)))
		}
		for i := range hook.Config.Conversion {
			binding := &hook.Config.Conversion[i]
			for _, rule := range binding.Conversions {
				converts[binding.CRDName] = append(converts[binding.CRDName], conversionStep{hook, binding, rule})
			}
		}
		if err := errors.Join(errs...); err != nil {
			wrong = append(wrong, fmt.Errorf("hook %s: %w", hook.Name, err))
		}
	}
	for _, definition := range slices.Sorted(maps.Keys(converts)) {
		wrong = append(wrong, webhook.ReviewConversion(server, definition, r.converts(converts[definition])))
	}
	return errors.Join(wrong...)
}

// run runs a hook for a review, and returns what it answered.
func (r *reviewer) run(ctx context.Context, hook *Hook, binding *NamedBinding, reviewContext map[string]any, answer string) ([]byte, error) {
	if limit := hook.Config.limit; limit != nil {
		if err := limit.Wait(ctx); err != nil {
			return nil, fmt.Errorf("waiting as its settings say: %w", err)
		}
	}
	reviewContext["binding"] = binding.Name
	if err := addSnapshots(ctx, r.client, hook, binding, reviewContext); err != nil {
		return nil, err
	}
	if reviewContext["snapshots"] != nil && r.level() < cache.Listed {
		return nil, errTooEarly
	}
	return r.ask(ctx, hook, []map[string]any{reviewContext}, answer)
}
