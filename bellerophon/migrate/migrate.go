package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	fieldManager = "bellerophon-migrate"
	pageSize     = 500              // objects in a page of a list
	patience     = 30 * time.Second // how long one request may take
	shown        = 3                // how many failures are quoted
)

// Definitions are the definitions of the kinds of Bellerophon.
var Definitions = []string{"heroes.stable.bellerophon.io", "sheroes.stable.simple-bellerophon.io"}

// Kind is a kind of custom resources, and the versions in which its objects may be stored.
type Kind struct {
	Definition string   `json:"definition"`
	Stores     string   `json:"stores"`   // the version that the definition stores
	Versions   []string `json:"versions"` // in which objects may be stored; with only Stores, there is nothing to do
	Objects    int      `json:"objects"`  // that were rewritten, or that would be
}

// String returns what was found, as text.
func (k Kind) String() string {
	if !k.IsOld() {
		return k.Definition + ": all objects are stored in " + k.Stores
	}
	return fmt.Sprintf("%s: %s, of %s to %s", k.Definition, count(k.Objects), names(k.Versions), k.Stores)
}

// IsOld reports whether objects may be stored in other versions than the definition stores.
func (k Kind) IsOld() bool { return len(k.Versions) != 1 || k.Versions[0] != k.Stores }

func count(objects int) string {
	if objects == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", objects)
}

// Options says which objects are moved.
type Options struct {
	Definitions []string // names of definitions, such as heroes.stable.bellerophon.io; default: the Definitions that the cluster has
	DryRun      bool     // change nothing

	// Progress, if set, is called after each page of objects. done is the number of objects so far, and left the number of
	// further ones as the API server estimates it. It is called in the goroutine of Run.
	Progress func(definition string, done, left int)
}

// migration is a connection to the cluster.
type migration struct {
	Options
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// Run rewrites the objects of each definition that may have objects in old versions, and then says in the definition that
// there are none. It calls found for each definition, after that. The content of the objects stays as it is.
//
// It fails if an object cannot be rewritten, after it has tried all others. Then it may run again, as it may after it was
// interrupted: an object that is stored in the right version already is not written.
func Run(ctx context.Context, config *rest.Config, options Options, found func(Kind)) error {
	m, err := newMigration(config, options)
	if err != nil {
		return err
	}
	wanted, required := options.Definitions, true
	if len(wanted) == 0 {
		wanted, required = Definitions, false
	}
	var failures []error
	has := false
	for _, name := range wanted {
		kind, err := m.migrate(ctx, name)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failures = append(failures, err)
		case kind != nil:
			has = true
			found(*kind)
		case required:
			failures = append(failures, fmt.Errorf("the cluster has no CustomResourceDefinition %s; the name has the form plural.group", name))
		}
	}
	if !has && len(failures) == 0 {
		return fmt.Errorf("the cluster has neither %s", strings.Join(wanted, " nor "))
	}
	return errors.Join(failures...)
}

func newMigration(config *rest.Config, options Options) (*migration, error) {
	m := &migration{Options: options}
	config = rest.CopyConfig(config)
	config.QPS = -1 // One request at a time.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	if m.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	if m.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return m, nil
}

// migrate moves the objects of one definition. It returns nil if the cluster does not have it. If the definition changes
// meanwhile, it begins again.
func (m *migration) migrate(ctx context.Context, name string) (*Kind, error) {
	first := (*Kind)(nil)
	for {
		held, err := m.read(ctx, name)
		if held == nil || err != nil {
			return nil, err
		}
		if first == nil {
			first = &Kind{Definition: name, Versions: held.Status.StoredVersions}
		}
		if first.Stores = held.stores().Name; held.isDone() {
			return first, nil
		}
		if m.DryRun {
			first.Objects, err = m.pages(ctx, held, nil)
			return first, err
		}
		if err := lifecycle.Pause(ctx, lag-time.Since(held.since(time.Now()))); err != nil {
			return nil, err
		}
		var failed []error
		first.Objects, err = m.pages(ctx, held, func(object *metav1.PartialObjectMetadata) {
			if err := m.rewrite(ctx, held, object); err != nil {
				failed = append(failed, err)
			}
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		case len(failed) > 0:
			return nil, fmt.Errorf("%d of %s of %s could not be rewritten, so the versions %s have to stay; mend what is named, and run the command again: %w",
				len(failed), count(first.Objects), name, names(held.Status.StoredVersions), errors.Join(failed[:min(len(failed), shown)]...))
		}
		if err := m.finish(ctx, held); !apierrors.IsConflict(err) {
			return first, err
		}
	}
}

// pages lists the objects of a definition, in pages, and visits each. It returns their number. Objects that are made
// meanwhile are stored in the right version. visit may be nil.
func (m *migration) pages(ctx context.Context, held *definition, visit func(*metav1.PartialObjectMetadata)) (number int, err error) {
	of, err := held.resource()
	if err != nil {
		return 0, err
	}
	token := ""
	for {
		listed, err := m.page(ctx, of, token)
		if next := continued(err); next != "" && next != token {
			token = next
			continue
		} else if err != nil {
			return number, fmt.Errorf("listing %s: %w", of.GroupResource(), err)
		}
		for i := range listed.Items {
			if visit != nil {
				visit(&listed.Items[i])
			}
			if ctx.Err() != nil {
				return number, ctx.Err()
			}
			number++
		}
		if m.Progress != nil {
			left := int64(0)
			if listed.RemainingItemCount != nil {
				left = *listed.RemainingItemCount
			}
			m.Progress(held.Name, number, int(left))
		}
		if token = listed.Continue; token == "" {
			return number, nil
		}
	}
}

// continued returns how a list goes on that took so long that the API server no longer has the state of its first page. The
// rest is then as it is now, which suits: what was written since is in the right version.
func continued(err error) (token string) {
	var status apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

func (m *migration) page(ctx context.Context, of schema.GroupVersionResource, token string) (*metav1.PartialObjectMetadataList, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.metadata.Resource(of).List(ctx, metav1.ListOptions{Limit: pageSize, Continue: token})
}

// rewrite writes an object as it is. The API server writes it only if that changes the stored version.
func (m *migration) rewrite(ctx context.Context, held *definition, object *metav1.PartialObjectMetadata) error {
	of, err := held.resource()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = m.metadata.Resource(of).Namespace(object.Namespace).Patch(ctx, object.Name, types.MergePatchType, []byte("{}"),
		metav1.PatchOptions{FieldManager: fieldManager}, held.subresource(of.Version)...)
	if err == nil || apierrors.IsNotFound(err) { // It was deleted meanwhile.
		return nil
	}
	return fmt.Errorf("%s: %w", strings.TrimPrefix(object.Namespace+"/"+object.Name, "/"), err)
}
