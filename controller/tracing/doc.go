// Package tracing makes OpenTelemetry traces of reconciles, from the events that caused an attempt to
// the echoes of its writes. It is a module of its own, so that a program without traces gets none of
// OpenTelemetry's modules.
//
//	tracer, err := tracing.New(provider, tracing.Options{})
//	config.Wrap(tracing.Propagate)
//	manager, err := controller.NewManager(config, scheme, controller.Options{})
//	err = manager.Add("hero", tracer.Reconciler(reconcile), controller.For(&v1.Hero{}))
//	err = tracer.Run(ctx, manager)
//
// Each attempt that the provider samples is one trace:
//
//	request                 from the first cause to the last echo
//	├─ receive              a cause: from the watch until the cache has it; one for each cause
//	├─ cache                from the cache until the request is ready to run
//	├─ queue                from ready until a worker takes it
//	└─ reconcile            the attempt, with the spans and requests that the reconciler starts
//	   └─ create, patch...  a write that succeeded: from the request to the answer
//	      └─ echo           from the answer until the cache has received the write
//
// The span reconcile has a link to each span receive. If a cause is a write of another trace, it also has
// a link to that write. If the attempt follows one that failed or asked for it, it has a link to that one.
//
// An echo that does not come within Options.EchoTimeout ends with the attribute
// bellerophon.echo = "lost". The attributes name objects, versions and reasons. They hold no content of
// objects, and no messages of errors, because these may quote content.
package tracing
