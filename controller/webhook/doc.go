// Package webhook serves admission and conversion webhooks whose functions are typed.
//
//	server, err := webhook.New(config, scheme, webhook.Options{Service: "heroes/webhooks"})
//	err = webhook.Validate(server, func(ctx context.Context, request webhook.Request[*v1.Hero]) error { ... })
//	err = webhook.Default(server, func(ctx context.Context, hero *v1.Hero) error { ... })
//	err = webhook.Convert(server, toV2, toV1)
//	err = server.Run(ctx)
//
// The server needs no other tool. It issues its certificates, keeps them in a Secret that replicas share,
// and rotates them before they expire. It applies its webhook configurations and the conversion of its
// resource definitions, with the certificate authorities that callers must trust. [Certificates] says how
// to take certificates from cert-manager or from files instead.
//
// A program that learns its rules only when it starts adds functions without Go types: see [ReviewValidating],
// [ReviewMutating] and [ReviewConversion].
//
// The API server names the plurals of kinds. [Subresource] makes a webhook one of a subresource. Metrics are in
// Options.Registry, and docs/metrics.md describes them. The page docs/guides/webhooks.md is a guide.
//
// # Rotation
//
// A new certificate is used only after its authority was injected into all configurations, and after the
// API servers had time to read them. Until then the server uses the old certificate. The old authority
// stays injected for an hour, for replicas that are late. Open connections stay open. So no request fails,
// and no restart is needed.
//
// # Nothing is locked out
//
// A webhook that fails refuses writes, unless [FailurePolicy] is Ignore. A webhook of a kind of Kubernetes
// itself, such as Pods, could therefore prevent the start of the pod that serves it. So such a webhook
// leaves out the namespace of the server, kube-system and kube-node-lease: see [AllNamespaces]. Custom
// resources are checked in every namespace, since no pod needs them to start. Webhooks of the kinds that
// the server itself writes without a namespace are refused.
//
// An object that is being deleted must be able to lose its finalizers. So an update of such an object that
// changes only metadata is allowed without a call of the function.
package webhook
