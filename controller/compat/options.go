package compat

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/streams"
	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// merged returns both sets of options, with the defaults that depend on each other.
func merged(config *rest.Config, theirs manager.Options, ours controller.Options) (manager.Options, controller.Options, error) {
	if ours.LeaderElection != (controller.LeaderElection{}) {
		return theirs, ours, errors.New("LeaderElection of Bellerophon's options is not supported here, because runnables would not follow it; set the one of controller-runtime's options")
	}
	if err := errors.Join(supported(theirs), cacheSupported(theirs.Cache), clientSupported(theirs.Client)); err != nil {
		return theirs, ours, err
	}
	if theirs.Scheme == nil {
		theirs.Scheme = scheme.Scheme
	}
	if theirs.Logger.GetSink() == nil {
		theirs.Logger = log.Log
	}
	if ours.Logger == nil {
		ours.Logger = slog.New(logr.ToSlogHandler(theirs.Logger))
	}
	if _, all := theirs.Cache.DefaultNamespaces[ctrlcache.AllNamespaces]; !all && len(ours.Namespaces) == 0 {
		ours.Namespaces = slices.Sorted(maps.Keys(theirs.Cache.DefaultNamespaces))
	}
	if ours.UserAgent == "" {
		if ours.UserAgent = config.UserAgent; ours.UserAgent == "" {
			ours.UserAgent = rest.DefaultKubernetesUserAgent()
		}
	}
	if ours.FieldManager == "" { // As the API server derives it from the user agent, so that the owners of fields stay.
		ours.FieldManager, _, _ = strings.Cut(ours.UserAgent, "/")
	}
	return theirs, ours, nil
}

// supported returns an error for options that take the place of what Bellerophon does.
func supported(theirs manager.Options) error {
	if theirs.NewCache != nil || theirs.NewClient != nil {
		return errors.New("NewCache and NewClient are not supported, because Bellerophon's cache and client take their place; leave them out")
	}
	return nil
}

// cacheSupported returns an error that names the options of the cache that are not supported.
func cacheSupported(options ctrlcache.Options) error {
	for namespace, config := range options.DefaultNamespaces {
		if !reflect.ValueOf(config).IsZero() {
			return fmt.Errorf("Cache.DefaultNamespaces has options for %q, which are not supported; leave them out", namespace)
		}
	}
	options.DefaultNamespaces, options.DefaultTransform, options.Scheme = nil, nil, nil
	if given := set(options); len(given) > 0 {
		return fmt.Errorf("the options Cache.%s are not supported; DefaultNamespaces and DefaultTransform are", strings.Join(given, ", Cache."))
	}
	return nil
}

// clientSupported returns an error that names the options of the client that are not supported.
func clientSupported(options client.Options) error {
	if options.Cache != nil && options.Cache.Reader != nil {
		return errors.New("Client.Cache.Reader is not supported; leave it out")
	}
	options.Cache, options.FieldOwner, options.FieldValidation, options.DryRun, options.Scheme = nil, "", "", nil, nil
	options.Log = logr.Logger{}
	if given := set(options); len(given) > 0 {
		return fmt.Errorf("the options Client.%s are not supported; leave them out", strings.Join(given, ", Client."))
	}
	return nil
}

// set returns the names of the fields of a struct that are set.
func set(options any) (names []string) {
	value := reflect.ValueOf(options)
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			names = append(names, value.Type().Field(i).Name)
		}
	}
	return names
}

// transformOf returns the transform of all kinds. As in controller-runtime, managed fields are kept by
// default.
func transformOf(by toolscache.TransformFunc) func(streams.Object) {
	return func(object streams.Object) {
		if by == nil {
			return
		}
		changed, err := by(object)
		if err != nil {
			panic(fmt.Errorf("Cache.DefaultTransform: %w", err))
		}
		if changed == any(object) {
			return
		}
		made, is := changed.(streams.Object)
		if !is {
			panic(fmt.Errorf("Cache.DefaultTransform makes a %T of a %T; keep the type", changed, object))
		}
		if err := assign(object, made); err != nil {
			panic(fmt.Errorf("Cache.DefaultTransform: %w", err))
		}
	}
}
