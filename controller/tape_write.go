package controller

import (
	"context"
	"fmt"
	"time"

	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// outside returns the record of an own write that belongs to no attempt, such as a write of a runnable. Attempts read it
// before the watch brings it. It returns nil for a write of an attempt, whose exchange is recorded, and if nothing is
// recorded.
//
// object is the API server's answer, before it is converted to the form that the cache keeps. It is nil for a deletion.
func (t *tape) outside(ctx context.Context, key streams.Key, object streams.Object, uid types.UID) *recording.Pending {
	if t == nil || t.writer == nil || tapedOf(ctx) != nil {
		return nil
	}
	made := &recording.Pending{Record: recording.Record{Own: &recording.OwnWrite{Object: recording.Object{Key: key}, UID: uid, Deleted: object == nil}}}
	if object == nil {
		return made
	}
	made.Own.ResourceVersion = object.GetResourceVersion()
	kept := object.DeepCopyObject().(streams.Object)
	made.Encode = func(record *recording.Record, redact *recording.Redactor) error {
		return encodeJSON(&record.Own.Object, kept, redact) // The watch may keep the kind as a map, which protobuf is not for.
	}
	return made
}

// write calls a function that makes an own write visible to readers of the cache. The write has a position of its own.
// outside is the record of a write that belongs to no attempt.
func (t *tape) write(ctx context.Context, outside *recording.Pending, write func()) {
	if t != nil && t.replay != nil {
		t.replay.read(ctx, func() []streams.Object {
			write()
			return nil
		})
		return
	}
	of := tapedOf(ctx)
	if t == nil || of == nil && outside == nil {
		write()
		return
	}
	if of != nil {
		of.mu.Lock()
		defer of.mu.Unlock()
		of.reads++
	}
	t.visible.Lock()
	defer t.visible.Unlock()
	t.position++
	if of == nil {
		outside.Position = t.position
		t.add(*outside, objectSize)
	} else {
		of.at, of.last = t.position, time.Now()
		t.put(recording.Record{Position: of.at, Read: &recording.Read{Attempt: of.number, Number: of.reads, Writes: true}}, 64)
	}
	write()
}

// own makes an own write that belongs to no attempt visible to the attempts of a replay.
func (r *replay) own(write *recording.OwnWrite) error {
	watched := r.watchedKind(write.Key.GroupKind)
	if watched == nil || watched.store() == nil {
		return nil // No controller watches the kind.
	}
	if write.Deleted {
		watched.store().RecordDeletion(write.Key.NamespacedName, write.UID, time.Time{})
		return nil
	}
	kept, err := r.asWatched(watched, &write.Object)
	if err == nil {
		watched.store().RecordWrite(kept, time.Time{}, time.Time{})
	}
	return err
}

// watchedKind returns the watch of a kind, or nil.
func (r *replay) watchedKind(kind schema.GroupKind) *watched {
	for _, watched := range r.manager.present.Load().watches {
		if watched.kind.GroupKind() == kind {
			return watched
		}
	}
	return nil
}

// asWatched decodes a recorded object into the form that the cache keeps.
func (r *replay) asWatched(watched *watched, of *recording.Object) (streams.Object, error) {
	whole := watched.kind.New()
	if err := decodeObject(of, whole); err != nil {
		return nil, fmt.Errorf("replay: reading %s: %w", of.Key, err)
	}
	options := watched.options
	options.Transform = r.manager.client.keepingManaged(watched)
	return sources.AsWatched(watched.kind, options, whole)
}
