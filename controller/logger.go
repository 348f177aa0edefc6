package controller

import (
	"context"
	"log/slog"

	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/streams"
)

type managerKey struct{}

// Logger returns the logger of the manager that ctx belongs to, or slog.Default() outside of a manager.
// Within a reconcile its records have the attributes controller, namespace, name, reconcileID and causes.
// reconcileID is the same in all records of one attempt, also in the records of the manager itself. The
// attributes cost nothing unless Logger is called. Options.LogRate bounds the records about each object.
func Logger(ctx context.Context) *slog.Logger {
	log := slog.Default()
	of, managed := ctx.Value(managerKey{}).(*Manager)
	if managed {
		log = of.log
	}
	request, started, within := operators.AttemptOf(ctx)
	if !within {
		return log
	}
	if managed && of.limits.reconcilers != nil {
		log = slog.New(boundedHandler{log.Handler(), of.limits.reconcilers, logSubject{request.Controller, request.NamespacedName}})
	}
	return log.With("controller", request.Controller, "namespace", request.Namespace, "name", request.Name,
		"reconcileID", operators.AttemptID(request.Controller, request.NamespacedName, started), "causes", causes(request.Causes))
}

// loggedCauses bounds the causes in a record.
const loggedCauses = 10

// causes is a list of causes that becomes text only in a record that is written.
type causes []streams.Cause

// LogValue implements slog.LogValuer.
func (c causes) LogValue() slog.Value {
	texts := make([]string, 0, min(len(c), loggedCauses))
	for _, cause := range c[max(0, len(c)-loggedCauses):] {
		texts = append(texts, cause.Type.String()+" "+cause.Key.String()+" @"+cause.ResourceVersion)
	}
	return slog.AnyValue(texts)
}
