package dependents

import (
	"context"
	"errors"
	"sync"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
)

// View shows the children of an owner as the cache has them, with the writes so far: see [Children.Get].
// It is valid until the function returns that it was given to.
type View struct {
	ctx    context.Context // of the call that the view is for
	client *controller.Client
	owner  streams.Object
	set    string

	mu   sync.Mutex
	errs []error
}

// fail records a read that failed. It fails the dependent for which the view was made.
func (v *View) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.errs = append(v.errs, err)
}

// failure returns the errors of the reads that failed.
func (v *View) failure() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return errors.Join(v.errs...)
}
