package sources

import (
	"fmt"
	"strings"
	"time"

	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// MaxPageSize bounds a page of a list: above it, the API server had better stream.
const MaxPageSize = 10_000

// WatchOptions set up [Watch]. The zero value watches all objects of the kind.
type WatchOptions struct {
	// Namespaces are watched, each by requests of its own; all, if there are none. Of a kind
	// without namespaces they mean nothing.
	Namespaces    []string
	LabelSelector string
	FieldSelector string

	// PageSize, if it is not 0, has the API server asked for lists in pages of so many objects,
	// 1 to MaxPageSize. By default lists are streamed (WatchList) by servers that can: of what is
	// whole in memory at a time, that is least, and it takes nearly twice the CPU here.
	PageSize int

	// First, if it is not empty, is a field selector. Before the first list, at most a page is
	// asked for of what it selects besides, and told as Applied: at a start among many objects,
	// some need not wait for the list of all. A server that does not know the fields is a reason
	// to go on without.
	First string

	// MaxStaleness, if it is not 0, is how long the server may confirm nothing before the watch
	// is in doubt, 1 s to 24 h: by then the source has asked the server, and has said that it is
	// lost if there was no answer. DefaultMaxStaleness suits servers that send bookmarks. One that
	// sends none is asked every three quarters of it, and for a list where anything was written
	// since. Lists that follow one another wait up to 8 s: below about 40 s, a busy server without
	// bookmarks is in doubt for a part of the time, and so is one with bookmarks below a minute.
	MaxStaleness time.Duration

	// Transform changes an object before it enters the stream, to keep only what is read of
	// it. The default drops the managed fields, half of many an object. It must be fast
	// and must come to the same when it is applied twice. Of a kind that is kept as metadata
	// or as a projection it gets that.
	Transform func(object streams.Object)

	// Status, if set, tells how the watch is doing. Give it to one watch alone.
	Status *Status
}

// Validate says which option is out of its range.
func (o WatchOptions) Validate() error {
	named := map[string]bool{}
	for i, namespace := range o.Namespaces {
		switch wrong := validation.ValidateNamespaceName(namespace, false); {
		case namespace == "":
			return fmt.Errorf("watch: Namespaces[%d] is empty; name a namespace, or none at all for all", i)
		case len(wrong) > 0:
			return fmt.Errorf("watch: Namespaces[%d] is %q, which no namespace is called: %s", i, namespace, strings.Join(wrong, "; "))
		case named[namespace]:
			return fmt.Errorf("watch: Namespaces names %q twice; name it once", namespace)
		}
		named[namespace] = true
	}
	if _, err := labels.Parse(o.LabelSelector); err != nil {
		return fmt.Errorf("watch: LabelSelector is %q, which is no selector: %w", o.LabelSelector, err)
	}
	if _, err := fields.ParseSelector(o.FieldSelector); err != nil {
		return fmt.Errorf("watch: FieldSelector is %q, which is no selector: %w", o.FieldSelector, err)
	}
	if _, err := fields.ParseSelector(o.First); err != nil {
		return fmt.Errorf("watch: First is %q, which is no field selector: %w", o.First, err)
	}
	if o.MaxStaleness != 0 && (o.MaxStaleness < time.Second || o.MaxStaleness > 24*time.Hour) {
		return fmt.Errorf("watch: MaxStaleness is %v; allowed is 1s to 24h, or 0 for no bound", o.MaxStaleness)
	}
	if o.PageSize < 0 || o.PageSize > MaxPageSize {
		return fmt.Errorf("watch: PageSize is %d; allowed is 1 to %d, or 0 to stream lists", o.PageSize, MaxPageSize)
	}
	return nil
}

func (o WatchOptions) keep() func(streams.Object) {
	if o.Transform == nil {
		return dropManagedFields
	}
	return o.Transform
}

func dropManagedFields(object streams.Object) { object.SetManagedFields(nil) }
