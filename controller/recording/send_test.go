package recording

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
)

func TestWhatIsSentArrivesAsItIsFollowed(t *testing.T) {
	world, r := newCluster(1), newRing(t)
	write(t, world, r, 200)
	ctx, stop := context.WithCancel(t.Context())
	from, to := io.Pipe()
	group := lifecycle.New(t.Context())
	group.Go("sender", func(context.Context) error {
		return errors.Join(Send(ctx, r.options.Dir, to, func() error { return nil }), to.Close())
	})
	var arrived, ready []uint64
	added := 1
	err := Receive(from, func(batch Batch) error {
		if batch.Header == nil {
			t.Error("a batch has no header")
		}
		for _, record := range batch.Arrived {
			arrived = append(arrived, record.Position)
		}
		for _, record := range batch.Ready {
			ready = append(ready, record.Position)
		}
		if added++; added < 10 {
			write(t, world, r, 100)
		} else {
			stop()
		}
		return nil
	})
	if err := errors.Join(err, group.Wait()); err != nil {
		t.Fatal(err)
	}
	if len(arrived) < 1000 || len(ready) != len(arrived) || !slices.IsSorted(ready) {
		t.Errorf("%d records arrived, and %d are ready; sorted: %v", len(arrived), len(ready), slices.IsSorted(ready))
	}
}

func TestARecipientLearnsWhyASenderEnds(t *testing.T) {
	world, r := newCluster(1), newRing(t)
	write(t, world, r, 1)
	from, to := io.Pipe()
	group := lifecycle.New(t.Context())
	group.Go("sender", func(ctx context.Context) error {
		if err := Send(ctx, r.options.Dir, to, func() error { return nil }); !errors.Is(err, errBehind) {
			t.Errorf("Send returned %v, want %v", err, errBehind)
		}
		return to.Close()
	})
	err := Receive(from, func(Batch) error {
		for first := r.number; r.number < first+3*segments; {
			write(t, world, r, 100)
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), errBehind.Error()) {
		t.Errorf("Receive returned %v, want %v", err, errBehind)
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

func TestAnAnswerThatIsNoRecordingIsRefused(t *testing.T) {
	nothing := func(Batch) error { return nil }
	var whole bytes.Buffer
	world, r := newCluster(1), newRing(t)
	write(t, world, r, 50)
	ctx, stop := context.WithCancel(t.Context())
	if err := Send(ctx, r.options.Dir, &whole, func() error { stop(); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := Receive(bytes.NewReader(whole.Bytes()), nothing); err != nil {
		t.Fatal(err)
	}
	for cut := range whole.Len() {
		if err := Receive(bytes.NewReader(whole.Bytes()[:cut]), nothing); err == nil {
			t.Fatalf("%d of %d bytes are taken for all", cut, whole.Len())
		}
	}
	if err := Receive(strings.NewReader("404 page not found"), nothing); err == nil {
		t.Error("a text is taken for a recording")
	}
}
