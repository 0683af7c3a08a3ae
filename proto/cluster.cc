#include "proto/cluster.h"
