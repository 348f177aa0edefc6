// Package operator assembles the operator of Bellerophon: one manager with the controllers of all
// kinds. The programs and the benchmarks create the operator here. A new kind is one entry
// of this package.
package operator

import (
	"fmt"
	"sync"

	simplev1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/connect"
	"github.com/bellerophon-io/bellerophon/bellerophon/hero"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/webhook"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// kind is a kind of Bellerophon with its controller.
type kind struct {
	addToScheme func(*runtime.Scheme) error
	fields      func() owned.Fields // of the children
	addTo       func(*controller.Manager, *owned.Kinds) error
	addWebhooks func(*webhook.Server, *controller.Client, ...webhook.Option) error // nil for none
}

// Kinds says which kinds the operator works on, in addition to BellerophonSimple.
type Kinds struct {
	// Heroes adds the kind Bellerophon. Its resource definition may be installed later.
	Heroes bool
}

var (
	simpleKind = kind{addToScheme: simplev1.AddToScheme, fields: simple.Fields, addTo: simple.AddTo, addWebhooks: simple.AddWebhooks}
	heroKind   = kind{addToScheme: hero.AddToScheme, fields: hero.Fields, addTo: hero.AddTo, addWebhooks: hero.AddWebhooks}
)

func (k Kinds) all() []kind {
	if k.Heroes {
		return []kind{simpleKind, heroKind}
	}
	return []kind{simpleKind}
}

// addToScheme adds all kinds of Bellerophon to a scheme.
func addToScheme(types *runtime.Scheme) error {
	for _, kind := range (Kinds{Heroes: true}).all() {
		if err := kind.addToScheme(types); err != nil {
			return fmt.Errorf("add the kinds of Bellerophon to the scheme: %w", err)
		}
	}
	return nil
}

// Scheme returns client-go's scheme, to which the kinds of Bellerophon are added by the first call. A
// scheme of its own would take more memory.
var Scheme = sync.OnceValues(func() (*runtime.Scheme, error) { return scheme.Scheme, addToScheme(scheme.Scheme) })

// New creates a manager with the controllers of BellerophonSimple and of further kinds. Unless options sets OnError, the logger gets
// failures of sources as warnings that say what to do.
func New(config *rest.Config, options controller.Options, further Kinds) (*controller.Manager, error) {
	types, err := Scheme()
	if err != nil {
		return nil, err
	}
	if log := options.Logger; options.OnError == nil && log != nil {
		options.OnError = func(err error) { log.Warn("source or map function failed", "error", connect.Explain(err)) }
	}
	manager, err := controller.NewManager(config, types, options)
	if err != nil {
		return nil, err
	}
	return manager, addTo(manager, further.all())
}

// addTo adds the controllers of kinds to a manager.
func addTo(manager *controller.Manager, kinds []kind) error {
	fields := make([]owned.Fields, 0, len(kinds))
	for _, kind := range kinds {
		fields = append(fields, kind.fields())
	}
	children := owned.KindsOf(fields...)
	for _, kind := range kinds {
		if err := kind.addTo(manager, children); err != nil {
			return err
		}
	}
	return nil
}

// AddWebhooks adds the webhooks of BellerophonSimple and of further kinds. client is the client of the manager.
func AddWebhooks(server *webhook.Server, client *controller.Client, further Kinds, options ...webhook.Option) error {
	for _, kind := range further.all() {
		if kind.addWebhooks == nil {
			continue
		}
		if err := kind.addWebhooks(server, client, options...); err != nil {
			return err
		}
	}
	return nil
}
