//! The decision: tables, audit, planner world.
