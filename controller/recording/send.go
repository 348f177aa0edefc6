package recording

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
)

// sent is a batch as Send writes it for Receive.
type sent struct {
	Header  *Header
	Arrived []*Record
	Ready   int    // how many of the records that arrived and were not ready are ready now
	Ended   bool   // this is the last one
	Err     string // why, if not because the writer has ended
}

// Send follows the recording in a folder as [Follow] does, and writes its batches for [Receive]. It calls flush after
// each one.
func Send(ctx context.Context, dir string, to io.Writer, flush func() error) error {
	packed := s2.NewWriter(to, s2.WriterConcurrency(1), s2.WriterBlockSize(blockBytes))
	encoder := gob.NewEncoder(packed)
	send := func(batch *sent) error {
		if err := errors.Join(encoder.Encode(batch), packed.Flush(), flush()); err != nil {
			return fmt.Errorf("sending the recording: %w", err)
		}
		return nil
	}
	var broken error
	err := Follow(ctx, dir, func(batch Batch) error {
		broken = send(&sent{Header: batch.Header, Arrived: batch.Arrived, Ready: len(batch.Ready)})
		return broken
	})
	if broken != nil {
		return broken
	}
	last := &sent{Ended: true}
	if err != nil {
		last.Err = err.Error()
	}
	return errors.Join(err, send(last))
}

// Receive reads what [Send] writes, and calls each with the batches. It returns nil when the writer of the recording has
// ended. The clock of this machine does not matter: the sender decides what is ready.
func Receive(from io.Reader, each func(Batch) error) error {
	decoder := gob.NewDecoder(s2.NewReader(from))
	var held []*Record
	for {
		var got sent
		if err := decoder.Decode(&got); err != nil {
			return fmt.Errorf("the recording broke off: %w", err)
		}
		switch {
		case got.Ended && got.Err != "":
			return errors.New(got.Err)
		case got.Ended:
			return nil
		}
		if got.Header == nil || !isKnown(got.Header.Format) {
			return fmt.Errorf("receiving the recording: %w", errOtherFormat)
		}
		held = append(held, got.Arrived...)
		if got.Ready < 0 || got.Ready > len(held) {
			return fmt.Errorf("receiving the recording: %d records are ready of %d", got.Ready, len(held))
		}
		sortRecords(held)
		batch := Batch{Header: got.Header, Arrived: got.Arrived, Ready: slices.Clone(held[:got.Ready])}
		held = slices.Delete(held, 0, got.Ready)
		if err := each(batch); err != nil {
			return err
		}
	}
}
